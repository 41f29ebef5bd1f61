require "json"
JSON.parse("{bad")
