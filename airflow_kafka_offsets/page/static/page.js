// What the page cannot do without a script: look as Airflow looks, and leave Airflow's frame.
"use strict";
const around = window.parent;

// Airflow keeps its theme as a class of its own page, whatever the system's is.
function takeTheme() {
  const theme = ["dark", "light"].find((name) => around.document.documentElement.classList.contains(name));
  if (theme) document.documentElement.dataset.theme = theme;
}
if (around !== window) {
  takeTheme();
  new MutationObserver(takeTheme).observe(around.document.documentElement, {attributeFilter: ["class"]});
}

// The frame may not open Airflow's pages around itself: a link of Airflow's own page does.
document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-airflow]");
  if (!link || around === window || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  const outside = around.document.createElement("a");
  outside.href = link.href;
  around.document.body.append(outside);
  outside.click();
  outside.remove();
});
