"""A job that fails before it has read anything."""

import sys

sys.exit("this job fails")
