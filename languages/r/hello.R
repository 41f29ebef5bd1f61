args <- commandArgs(trailingOnly = TRUE)
name <- if (length(args) > 0) args[1] else "world"
cat(sprintf("Hello, %s!\n", name))
