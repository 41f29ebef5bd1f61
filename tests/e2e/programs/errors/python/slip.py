import os
import rnadom
