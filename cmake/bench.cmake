# bench/*.cc: one program each, built for release.
file(GLOB bench_files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/bench/*.cc)
if(bench_files)
  equipoise_need_benchmark()
endif()

foreach(file IN LISTS bench_files)
  cmake_path(GET file STEM name)
  add_executable(${name} ${file})
  target_link_libraries(${name} PRIVATE equipoise_core benchmark::benchmark_main equipoise_flags)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bench)
endforeach()
