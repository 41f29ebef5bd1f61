package main

import "github.com/nobody/has"

func main() { has.This() }
