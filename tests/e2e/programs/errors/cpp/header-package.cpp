#include <CGAL/Point_2.h>
int main() {}
