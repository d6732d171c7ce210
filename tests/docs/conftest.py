"""The pages on Spark share the session of the tests of Spark, and so its JVM."""

from spark.conftest import spark as spark
