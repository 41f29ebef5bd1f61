def f
  x = (1 +
end
