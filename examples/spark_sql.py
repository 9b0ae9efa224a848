"""Asks the tables of a lake in Spark SQL, and prints a line of JSON for each row (docs/lake-tables.md).

python3 spark_sql.py jdbc:postgresql://HOST/DATABASE s3://BUCKET/PREFIX "SELECT … FROM lake.turns …" …

Needs pyspark, Java, and in LAKE_JARS, with commas between them, Iceberg's library for this version of Spark
and a driver for the catalog's database. ICEBERG names the library's package, org.apache.iceberg by default.
"""

import json
import os
import sys
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import SparkSession

catalog, place, *questions = sys.argv[1:]
iceberg = os.environ.get("ICEBERG", "org.apache.iceberg")
settings = {
    "spark.jars": os.environ["LAKE_JARS"],
    "spark.sql.extensions": f"{iceberg}.spark.extensions.IcebergSparkSessionExtensions",
    # pyiceberg wrote into the database for a catalog of this name; both see the same tables under no other.
    "spark.sql.catalog.locus": f"{iceberg}.spark.SparkCatalog",
    "spark.sql.catalog.locus.catalog-impl": f"{iceberg}.jdbc.JdbcCatalog",
    "spark.sql.catalog.locus.jdbc.schema-version": "V1",
    "spark.sql.catalog.locus.jdbc.user": os.environ.get("PGUSER", ""),
    "spark.sql.catalog.locus.jdbc.password": os.environ.get("PGPASSWORD", ""),
    "spark.sql.catalog.locus.uri": catalog,
    # Tables of your own lie beside the place: `locus lake maintain` would take them for what is left over.
    "spark.sql.catalog.locus.warehouse": f"{place}-own",
    "spark.sql.defaultCatalog": "locus",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
}
if place.startswith("s3://"):  # its client takes region and keys from the environment
    settings["spark.sql.catalog.locus.io-impl"] = f"{iceberg}.aws.s3.S3FileIO"
    settings["spark.sql.catalog.locus.s3.endpoint"] = os.environ.get("AWS_ENDPOINT_URL", "")
    settings["spark.sql.catalog.locus.s3.path-style-access"] = "true"


def plain(value: Any) -> Any:
    return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else value


builder: Any = SparkSession.builder
spark = builder.master("local[2]").config(map={name: value for name, value in settings.items() if value})
session = spark.getOrCreate()
for question in questions:
    for row in session.sql(question).collect():
        print(json.dumps({name: plain(value) for name, value in row.asDict().items()}))
session.stop()
