puts "abc
puts 1
