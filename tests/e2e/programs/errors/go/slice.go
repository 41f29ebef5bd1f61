package main

import "fmt"

func main() {
	s := "hello"
	n := len(s) * 2
	fmt.Println(s[1:n])
}
