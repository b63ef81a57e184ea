"""Builds a program for this computer with the gcc from PATH."""

from SCons.Script import AlwaysBuild, Default, DefaultEnvironment

env = DefaultEnvironment()
env.Replace(CC="gcc", CXX="g++")

program = env.BuildProgram()
AlwaysBuild(env.Alias("size", program, env.VerboseAction("size $SOURCES", "Calculating size $SOURCE")))
Default([program])
