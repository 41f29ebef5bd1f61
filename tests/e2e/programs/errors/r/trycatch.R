r <- tryCatch({
  stop("inner problem")
}, error = function(e) {
  stop(paste("wrapped:", conditionMessage(e)))
})
