t = Thread.new do
  raise "in thread"
end
t.join
