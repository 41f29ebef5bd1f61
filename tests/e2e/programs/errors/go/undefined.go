package main

import "fmt"

func main() {
	count := 1
	fmt.Println(cuont)
	_ = count
}
