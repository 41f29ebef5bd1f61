#include <string>
#include <iostream>
#include <cstdlib>

std::string env(const char *name)
{
    return std::string(std::getenv(name));
}

int main()
{
    std::cout << env("NO_SUCH_VARIABLE_HERE").size() << '\n';
}
