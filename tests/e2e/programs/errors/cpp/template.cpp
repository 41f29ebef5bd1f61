#include <vector>
template <typename T> int measure(const T &t) {
    return t.length();
}
int main() {
    std::vector<int> v;
    return measure(v);
}
