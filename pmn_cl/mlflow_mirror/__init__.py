"""A copy of the results in MLflow. The folder of results is the truth."""
