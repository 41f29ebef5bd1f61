import os.paht
