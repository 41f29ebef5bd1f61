import threading, sys, os
def work():
    raise ValueError("in a thread")
t = threading.Thread(target=work)
t.start(); t.join()
sys.exit(1)
