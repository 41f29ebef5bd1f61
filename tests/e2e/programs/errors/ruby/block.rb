[1, "a"].each do |x|
  puts x + 1
end
