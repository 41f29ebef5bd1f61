autoload -Uz missing_function
print one
missing_function a b
