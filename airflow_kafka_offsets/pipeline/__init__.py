"""The use cases, one file each: what operators, sensors, triggers and the command line call."""
