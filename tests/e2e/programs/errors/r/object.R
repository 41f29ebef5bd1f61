x <- 1
print(y_missing + x)
