def f(a, b)
  a
end
f(1)
