require_relative "nobody_has"
