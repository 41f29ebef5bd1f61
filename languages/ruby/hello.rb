puts "Hello, #{ARGV[0] || 'world'}!"
