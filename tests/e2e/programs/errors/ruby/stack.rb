def f(n)
  f(n + 1)
end
f(0)
