# Installs the program (also as agentfs), the library with its headers, CMake package and pkg-config file, the manual
# page, shell completions and documents; and makes the .deb.
target_compile_definitions(warren_api PUBLIC WARREN_VERSION="${PROJECT_VERSION}")

# The library: every module but those that only the command line uses, and SQLite when it is ours.
set(program_only cli mcp documents drives context tools session sandbox fuse net toml)
set(pieces "")
foreach(module IN LISTS WARREN_MODULES)
  if(NOT module IN_LIST program_only)
    list(APPEND pieces $<TARGET_OBJECTS:warren_${module}>)
  endif()
endforeach()
get_target_property(sqlite_type warren_sqlite TYPE)
if(sqlite_type STREQUAL "OBJECT_LIBRARY")
  list(APPEND pieces $<TARGET_OBJECTS:warren_sqlite>)
  set(sqlite_libraries ${CMAKE_DL_LIBS} m)
  set(WARREN_SYSTEM_SQLITE OFF)
else()
  set(sqlite_libraries SQLite::SQLite3)
  set(WARREN_SYSTEM_SQLITE ON)
endif()

# Debian has no static archive of fmt, so libwarren.a contains what it needs of it.
if(fmt_VERSION VERSION_GREATER_EQUAL 9 AND fmt_VERSION VERSION_LESS 10)
  set(own_fmt ${CMAKE_CURRENT_LIST_DIR}/package/static_fmt.cc)
  set(static_fmt_libraries "")
  set(WARREN_STATIC_NEEDS_FMT OFF)
  set(WARREN_PC_FMT "")
else()
  set(own_fmt "")
  set(static_fmt_libraries fmt::fmt)
  set(WARREN_STATIC_NEEDS_FMT ON)
  set(WARREN_PC_FMT "-lfmt ")
endif()

function(warren_library target kind)
  add_library(${target} ${kind} ${pieces} ${ARGN})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME warren LINKER_LANGUAGE CXX)
  target_compile_features(${target} INTERFACE cxx_std_20)
  target_include_directories(${target} INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                                 $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
endfunction()

warren_library(warren_static STATIC ${own_fmt})
set_target_properties(warren_static PROPERTIES EXPORT_NAME static)
target_link_libraries(warren_static PUBLIC ${static_fmt_libraries} Threads::Threads OpenSSL::Crypto ${CMAKE_DL_LIBS} ${sqlite_libraries})
install(TARGETS warren_static EXPORT warren-static ARCHIVE)
install(EXPORT warren-static NAMESPACE warren:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/warren)

# The linker hides everything but the public API, so that our SQLite and fmt never clash with a user's. Not built with
# sanitizers, whose runtime belongs to the program. Until 1.0 a minor version may change the API, so the soname contains
# the minor version.
if(NOT WARREN_SANITIZE)
  warren_library(warren_shared SHARED)
  set_target_properties(warren_shared PROPERTIES EXPORT_NAME warren VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR} LINK_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/package/exports.map)
  target_link_options(warren_shared PRIVATE -Wl,--version-script=${CMAKE_CURRENT_LIST_DIR}/package/exports.map
                                            -Wl,--no-undefined)
  target_link_libraries(warren_shared PRIVATE fmt::fmt Threads::Threads OpenSSL::Crypto ${CMAKE_DL_LIBS} ${sqlite_libraries})
  install(TARGETS warren_shared EXPORT warren-shared LIBRARY)
  install(EXPORT warren-shared NAMESPACE warren:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/warren)
endif()

install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/warren DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h")

# find_package(warren) and pkg-config.
include(CMakePackageConfigHelpers)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/package/warren-config.cmake.in warren-config.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/warren NO_SET_AND_CHECK_MACRO NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file(warren-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/warren-config.cmake ${PROJECT_BINARY_DIR}/warren-config-version.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/warren)
# The prefix relative to the .pc file, so that the installed tree can be moved.
file(RELATIVE_PATH WARREN_PC_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(${CMAKE_CURRENT_LIST_DIR}/package/warren.pc.in warren.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/warren.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# The program, under both of its names.
install(TARGETS warren RUNTIME)
file(CREATE_LINK warren ${PROJECT_BINARY_DIR}/agentfs SYMBOLIC)
install(FILES ${PROJECT_BINARY_DIR}/agentfs DESTINATION ${CMAKE_INSTALL_BINDIR})

# The helper names that mount(8) looks for, so that /etc/fstab can mount agents.
file(RELATIVE_PATH to_program ${CMAKE_INSTALL_FULL_SBINDIR} ${CMAKE_INSTALL_FULL_BINDIR}/warren)
foreach(name IN ITEMS mount.warren mount.fuse.warren)
  file(CREATE_LINK ${to_program} ${PROJECT_BINARY_DIR}/${name} SYMBOLIC)
  install(FILES ${PROJECT_BINARY_DIR}/${name} DESTINATION ${CMAKE_INSTALL_SBINDIR})
endforeach()

# The program generates its own manual page and completions.
set(generated ${PROJECT_BINARY_DIR}/generated)
function(warren_generate file)
  add_custom_command(OUTPUT ${generated}/${file}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${generated}
    COMMAND warren ${ARGN} > ${generated}/${file}
    DEPENDS warren VERBATIM)
endfunction()
warren_generate(warren.1 man)
foreach(shell IN ITEMS bash zsh fish)
  warren_generate(warren.${shell} completions ${shell})
endforeach()
add_custom_target(warren_generated ALL DEPENDS ${generated}/warren.1 ${generated}/warren.bash
                                               ${generated}/warren.zsh ${generated}/warren.fish)
set(share ${CMAKE_INSTALL_DATADIR})
install(FILES ${generated}/warren.bash DESTINATION ${share}/bash-completion/completions RENAME warren)
install(FILES ${generated}/warren.zsh DESTINATION ${share}/zsh/site-functions RENAME _warren)
install(FILES ${generated}/warren.fish DESTINATION ${share}/fish/vendor_completions.d)
install(FILES ${generated}/warren.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
file(CONFIGURE OUTPUT generated/agentfs.1 CONTENT ".so man1/warren.1\n")
install(FILES ${PROJECT_BINARY_DIR}/generated/agentfs.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)

# The default embedding model, which the program finds beside itself.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/.deps/models/all-MiniLM-L6-v2 DESTINATION ${share}/warren/models OPTIONAL
        PATTERN tokenizer.json EXCLUDE)
install(FILES README.md CHANGELOG.md LICENSE NOTICE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN "*.md" PATTERN changes EXCLUDE)
install(DIRECTORY examples DESTINATION ${CMAKE_INSTALL_DOCDIR})

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME warren)
set(CPACK_PACKAGE_CONTACT "The Warren authors <warren@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "filesystem for AI agents: files, state and history in one file")
set(CPACK_PACKAGE_DESCRIPTION
    "Stores everything an AI agent works on (files, key-value state, the trail of its tool calls) in one\n"
    " SQLite file in the AgentFS format. This package has the program, the C++ library and its headers.")
string(JOIN "" CPACK_PACKAGE_DESCRIPTION ${CPACK_PACKAGE_DESCRIPTION})
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
include(CPack)
