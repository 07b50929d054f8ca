"""The page of a pipeline in Airflow. It shows what ``kafka-offsets show`` and ``lag`` print, and changes nothing."""
