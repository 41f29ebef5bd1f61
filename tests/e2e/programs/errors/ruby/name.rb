value = 1
puts valeu
