"""The pages on Spark share the session of the tests of Spark, and so its JVM."""

from tests.spark.conftest import spark as spark
