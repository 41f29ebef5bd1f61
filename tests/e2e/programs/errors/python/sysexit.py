import sys
sys.exit("fatal: bad config")
