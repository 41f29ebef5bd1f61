x = nil
puts "a" + x
