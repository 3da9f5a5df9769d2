# How our own targets compile. Third-party headers come in as SYSTEM, so -Werror is ours alone.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()

option(EQUIPOISE_DEBUG_CHECKS "Compile the checks that are too slow for a release" OFF)
option(EQUIPOISE_SANITIZE "Compile with ASan and UBSan" OFF)
set(EQUIPOISE_DEFINITIONS $<$<BOOL:${EQUIPOISE_DEBUG_CHECKS}>:EQUIPOISE_DEBUG_CHECKS=1>)

# No fused multiply-add: equal inputs must give equal plans on every machine.
add_library(equipoise_flags INTERFACE)
target_compile_options(equipoise_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Werror -ffp-contract=off
  # GCC 12 sees overlapping copies in "text" + std::to_string(n), where there are none (GCC bug 105651).
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)

if(EQUIPOISE_SANITIZE)
  # For every target, gtest from source included: mixed containers would report false overflows.
  add_compile_definitions(EQUIPOISE_SANITIZE=1)
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
endif()
