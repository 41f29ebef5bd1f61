df <- data.frame(a = 1:3, b = 4:6)
print(df[, "c"])
