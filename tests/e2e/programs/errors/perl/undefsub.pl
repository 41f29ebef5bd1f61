sub calculate { 1 }
print calcluate(2);
