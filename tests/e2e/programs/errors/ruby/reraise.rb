begin
  Integer("x")
rescue ArgumentError => e
  raise "could not parse"
end
