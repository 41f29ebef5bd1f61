python3 -c 'import sys; sys.exit(5)'
