#include <vector>
int main() {
    std::vector<int> v{ 1 };
    return v.at(5);
}
