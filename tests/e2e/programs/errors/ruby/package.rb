require "sinatra"
