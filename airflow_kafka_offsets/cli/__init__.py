"""The command ``kafka-offsets``: six commands that show what log and cluster have, three that write."""
