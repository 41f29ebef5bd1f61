// SPDX-License-Identifier: Apache-2.0
// What programs do every day; run bare and in a sandbox, its output has to be the same.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <concepts>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <future>
#include <iomanip>
#include <iostream>
#include <map>
#include <ranges>
#include <regex>
#include <thread>
#include <vector>

namespace fs = std::filesystem;

template <class T>
concept Number = std::integral<T> || std::floating_point<T>;

template <Number... T> auto total(T... x)
{
    return (x + ... + 0);
}

static void threads()
{
    std::atomic<long> sum = 0;
    std::vector<std::jthread> all;
    for (int i = 0; i < 20; i++)
        all.emplace_back([&sum, i] {
            for (int k = 0; k < 1000; k++)
                sum += i;
        });
    all.clear();
    auto later = std::async(std::launch::async, [] { return 42; });
    std::cout << "threads " << sum << ' ' << later.get() << std::endl;
}

static void files()
{
    auto folder = fs::temp_directory_path() / "everyday-ü";
    fs::create_directories(folder / "a/b");
    std::ofstream(folder / "a/世界.txt") << "text\n";
    fs::copy(folder / "a", folder / "copy", fs::copy_options::recursive);
    std::vector<std::string> names;
    for (auto &entry : fs::recursive_directory_iterator(folder))
        names.push_back(fs::relative(entry.path(), folder));
    std::ranges::sort(names);
    for (auto &name : names)
        std::cout << name << ' ';
    std::cout << fs::remove_all(folder) << std::endl;
    try {
        fs::file_size("/nope");
    } catch (fs::filesystem_error &e) {
        std::cout << e.code().message() << std::endl;
    }
}

int main(int argc, char **argv)
{
    threads();
    files();
    std::map<std::string, int> seen;
    for (std::string word; std::cin >> word;)
        seen[word]++;
    for (auto &[word, n] : seen)
        std::cout << word << ' ' << n << '\n';
    for (int x : std::views::iota(1, 10) | std::views::filter([](int i) { return i % 2; }))
        std::cout << x << ' ';
    std::cout << total(1, 2.5, 3) << std::endl;
    std::smatch match;
    std::string mail = "ada@example.org";
    std::cout << std::regex_match(mail, match, std::regex("(\\w+)@(.*)")) << match[2] << std::endl;
    std::cout << std::system("echo from sh; exit 3") / 256 << std::endl;
    setenv("TZ", "America/New_York", 1);
    std::time_t when = 1700000000;
    std::cout << std::put_time(std::localtime(&when), "%F %T %Z") << std::endl;
    for (int i = 1; i < argc; i++)
        std::cout << std::quoted(argv[i]);
    std::cout << std::getenv("EVERYDAY") << std::endl;
    for (int i = 0; i < 50000; i++)
        std::cout << "line " << i << '\n';
    std::cout.flush();
    throw std::runtime_error("nobody catches this");
}
