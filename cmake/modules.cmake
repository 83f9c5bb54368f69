# warren_module(name): the library of one folder under src/, linked according to src/LAYERS, and its tests (*_test.cc)
# as one program. Test helpers that must be inside the module (*_testing.cc) form a separate library,
# warren_<name>_testing, which is not installed.
file(STRINGS ${PROJECT_SOURCE_DIR}/src/LAYERS layer_lines REGEX "^[a-z]")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/LAYERS)
set(WARREN_MODULES "")
foreach(line IN LISTS layer_lines)
  string(REGEX MATCH "^([a-z_]+):(.*)$" matched "${line}")
  set(module ${CMAKE_MATCH_1})
  separate_arguments(allowed UNIX_COMMAND "${CMAKE_MATCH_2}")
  list(APPEND WARREN_MODULES ${module})
  set(WARREN_LAYER_${module} ${allowed})
endforeach()

add_library(warren_warnings INTERFACE)
target_compile_options(warren_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor -Woverloaded-virtual -Wimplicit-fallthrough
  -Wno-missing-field-initializers # designated initialisers leave other members at their defaults on purpose
  $<$<BOOL:${WARREN_WARNINGS_ARE_ERRORS}>:-Werror>)

# Headers that every unit includes, precompiled once for the libraries and once for the tests, which have other compile
# flags and also include GoogleTest.
set(precompiled <algorithm> <chrono> <cstdint> <functional> <map> <memory> <mutex> <optional> <span> <string>
    <string_view> <unordered_map> <variant> <vector> <fmt/format.h>)
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/pch.cc CONTENT "int main() { return 0; }\n")
add_library(warren_pch STATIC ${PROJECT_BINARY_DIR}/pch.cc)
target_precompile_headers(warren_pch PRIVATE ${precompiled})
target_link_libraries(warren_pch PRIVATE fmt::fmt nlohmann_json::nlohmann_json Threads::Threads warren_warnings)
# Only the tested code is checked for undefined behaviour; without that, the tests compile in half the time.
if(WARREN_SANITIZE MATCHES undefined)
  set(WARREN_TEST_OPTIONS -fno-sanitize=undefined)
endif()
if(WARREN_BUILD_TESTS)
  find_package(GTest REQUIRED)
  add_executable(warren_test_pch ${PROJECT_BINARY_DIR}/pch.cc)
  target_compile_options(warren_test_pch PRIVATE ${WARREN_TEST_OPTIONS})
  target_precompile_headers(warren_test_pch PRIVATE ${precompiled} <gtest/gtest.h>)
  target_link_libraries(warren_test_pch PRIVATE GTest::gmock fmt::fmt nlohmann_json::nlohmann_json Threads::Threads
                                                warren_warnings)
endif()

# warren_unity(target source...): compiles the sources of one folder together, so that each header is read only once.
# Names in anonymous namespaces must therefore be unique within a folder. -DWARREN_UNITY=OFF compiles each file alone,
# which shows missing includes.
function(warren_unity target)
  if(NOT WARREN_UNITY)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  foreach(source IN LISTS ARGN)
    get_filename_component(path ${source} ABSOLUTE)
    get_filename_component(folder ${path} DIRECTORY)
    string(MAKE_C_IDENTIFIER "${folder}" key)
    math(EXPR count_${key} "0${count_${key}} + 1")
    math(EXPR batch "(${count_${key}} - 1) / ${WARREN_UNITY_BATCH}")
    get_filename_component(room ${folder} NAME)
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${room}_${batch})
  endforeach()
endfunction()

# With WARREN_UNITS_BY_NAME, unit tests are built only if they are named as a target.
# These run whole programs.
set(WARREN_PLAIN_TESTS cli_test crash_test postgres_blobs_test redis_blobs_test redis_machines_test s3_blobs_test)
function(warren_test name)
  add_executable(${name} ${ARGN})
  if(NOT name STREQUAL api_test) # includes public and private headers, whose names collide in one unit
    warren_unity(${name} ${ARGN})
  endif()
  if(WARREN_UNITS_BY_NAME AND NOT name IN_LIST WARREN_PLAIN_TESTS)
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
  target_link_libraries(${name} PRIVATE GTest::gmock GTest::gtest_main fmt::fmt warren_warnings)
  target_compile_options(${name} PRIVATE ${WARREN_TEST_OPTIONS})
  target_precompile_headers(${name} REUSE_FROM warren_test_pch)
  add_test(NAME ${name} COMMAND ${name})
endfunction()

function(warren_module module)
  set(here ${PROJECT_SOURCE_DIR}/src/${module})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${here}/*.cc)
  file(GLOB_RECURSE tests CONFIGURE_DEPENDS ${here}/*_test.cc)
  file(GLOB_RECURSE testing CONFIGURE_DEPENDS ${here}/*_testing.cc)
  set(program ${here}/main.cc) # a program's entry point is not part of its library
  list(REMOVE_ITEM sources ${tests} ${testing} ${program})
  add_library(warren_${module} STATIC ${sources})
  warren_unity(warren_${module} ${sources})
  target_include_directories(warren_${module} PUBLIC ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(warren_${module} PUBLIC fmt::fmt nlohmann_json::nlohmann_json Threads::Threads
                                         PRIVATE warren_warnings)
  foreach(lower IN LISTS WARREN_LAYER_${module})
    target_link_libraries(warren_${module} PUBLIC warren_${lower})
  endforeach()
  target_precompile_headers(warren_${module} REUSE_FROM warren_pch)
  if(WARREN_BUILD_TESTS AND testing)
    add_library(warren_${module}_testing STATIC ${testing})
    target_link_libraries(warren_${module}_testing PUBLIC warren_${module} PRIVATE warren_warnings)
    target_precompile_headers(warren_${module}_testing REUSE_FROM warren_pch)
  endif()
  if(WARREN_BUILD_TESTS AND tests)
    warren_test(${module}_test ${tests})
    target_link_libraries(${module}_test PRIVATE warren_testing warren_${module})
    if(testing)
      target_link_libraries(${module}_test PRIVATE warren_${module}_testing)
    endif()
  endif()
endfunction()
