require "json"
require "nokogiri_missing"
