#include <iostream>
#include <string>
int main()
{
    for (std::string s : { "12", "x" }) {
        long v = std::stol(s);
        std::cout << v << '\n';
    }
}
