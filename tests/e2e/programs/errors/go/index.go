package main

import "fmt"

func pick(a []int, i int) int {
	return a[i]
}

func main() {
	fmt.Println(pick([]int{1, 2, 3}, 5))
}
