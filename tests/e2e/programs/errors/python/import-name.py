import os
from math import squareroot
