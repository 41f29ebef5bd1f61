require 'nokogiri'
