# The installed package first, else a pinned archive: the versions of Debian 12, so both are the same code.
include(FetchContent)
set(CMAKE_POLICY_DEFAULT_CMP0077 NEW)    # our settings below reach their options
set(CMAKE_POLICY_VERSION_MINIMUM 3.5)    # their old minimum is no error for CMake 4

macro(equipoise_need_json)
  set(JSON_Install OFF)
  FetchContent_Declare(nlohmann_json
    URL https://github.com/nlohmann/json/releases/download/v3.11.2/json.tar.xz
    URL_HASH SHA256=8c4b26bf4b422252e13f332bc5e388ec0ab5c3443d24399acb675e68278d341f
    DOWNLOAD_EXTRACT_TIMESTAMP OFF SYSTEM
    FIND_PACKAGE_ARGS 3.11)
  FetchContent_MakeAvailable(nlohmann_json)
endmacro()

macro(equipoise_need_cli11)
  set(CLI11_BUILD_TESTS OFF)
  set(CLI11_BUILD_EXAMPLES OFF)
  FetchContent_Declare(CLI11
    URL https://github.com/CLIUtils/CLI11/archive/refs/tags/v2.1.2.tar.gz
    URL_HASH SHA256=26291377e892ba0e5b4972cdfd4a2ab3bf53af8dac1f4ea8fe0d1376b625c8cb
    DOWNLOAD_EXTRACT_TIMESTAMP OFF SYSTEM
    FIND_PACKAGE_ARGS 2.1)
  FetchContent_MakeAvailable(CLI11)
endmacro()

macro(equipoise_need_gtest)
  set(INSTALL_GTEST OFF)
  FetchContent_Declare(GTest
    URL https://github.com/google/googletest/archive/refs/tags/release-1.12.1.tar.gz
    URL_HASH SHA256=81964fe578e9bd7c94dfdb09c8e4d6e6759e19967e397dbea48d1c10e45d0df2
    DOWNLOAD_EXTRACT_TIMESTAMP OFF SYSTEM
    FIND_PACKAGE_ARGS 1.12)
  FetchContent_MakeAvailable(GTest)
endmacro()

macro(equipoise_need_benchmark)
  set(BENCHMARK_ENABLE_TESTING OFF)
  set(BENCHMARK_ENABLE_INSTALL OFF)
  FetchContent_Declare(benchmark
    URL https://github.com/google/benchmark/archive/refs/tags/v1.7.1.tar.gz
    URL_HASH SHA256=6430e4092653380d9dc4ccb45a1e2dc9259d581f4866dc0759713126056bc1d7
    DOWNLOAD_EXTRACT_TIMESTAMP OFF SYSTEM
    FIND_PACKAGE_ARGS 1.7)
  FetchContent_MakeAvailable(benchmark)
endmacro()
