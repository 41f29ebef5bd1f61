SELECT 1;
.read nobody_has.sql
