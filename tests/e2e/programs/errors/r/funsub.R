mean[1]
