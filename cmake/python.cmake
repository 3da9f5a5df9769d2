# What goes into the wheel: equipoise._core, the torch operator, the command line.
find_package(Python 3.11 REQUIRED COMPONENTS Interpreter Development.Module)
include(torch)

equipoise_sources(binding_sources bindings)
if(binding_sources AND TARGET equipoise_io)
  execute_process(
    COMMAND ${Python_EXECUTABLE} -m nanobind --cmake_dir
    OUTPUT_VARIABLE nanobind_ROOT OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  find_package(nanobind CONFIG REQUIRED)
  nanobind_add_module(_core NB_STATIC NB_SUPPRESS_WARNINGS ${binding_sources})
  target_link_libraries(_core PRIVATE equipoise_io equipoise_flags)
  install(TARGETS _core LIBRARY DESTINATION equipoise)
endif()

equipoise_sources(torch_sources torch_ext)
if(torch_sources AND EQUIPOISE_TORCH_VERSION)
  # Loaded with torch.ops.load_library after torch: no Python.h, and no rpath to torch's folder.
  add_library(equipoise_torch SHARED ${torch_sources})
  target_link_libraries(equipoise_torch PRIVATE equipoise_core equipoise_torch_headers equipoise_flags)
  set_target_properties(equipoise_torch PROPERTIES SKIP_BUILD_RPATH ON)
  install(TARGETS equipoise_torch LIBRARY DESTINATION equipoise/lib)
  file(WRITE ${PROJECT_BINARY_DIR}/_torch_build.txt "${EQUIPOISE_TORCH_VERSION}\n")
  install(FILES ${PROJECT_BINARY_DIR}/_torch_build.txt DESTINATION equipoise)
endif()

if(TARGET equipoise_cli)
  # scikit-build-core says where scripts go; a plain install uses bin.
  set(scripts bin)
  if(SKBUILD_SCRIPTS_DIR)
    set(scripts ${SKBUILD_SCRIPTS_DIR})
  endif()
  install(TARGETS equipoise_cli RUNTIME DESTINATION ${scripts})
endif()
