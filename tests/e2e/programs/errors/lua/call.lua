local x = 1
foo(x)
