import sys
import pandas as pd
