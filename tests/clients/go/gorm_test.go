// GORM: migrations, relations, upserts, transactions, with and without prepared statements.
package firststeps

import (
	"fmt"
	"os"
	"testing"
	"time"

	"gorm.io/driver/mysql"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

type User struct {
	gorm.Model
	Name  string `gorm:"size:50;uniqueIndex"`
	Age   *int
	Money float64 `gorm:"type:decimal(10,2)"`
	Born  time.Time
	Posts []Post `gorm:"constraint:OnDelete:CASCADE"`
	Langs []Lang `gorm:"many2many:user_langs"`
}

type Post struct {
	ID     uint
	UserID uint
	Title  string `gorm:"index;size:100"`
}

type Lang struct {
	ID   uint
	Code string `gorm:"size:5;uniqueIndex"`
}

type wider struct {
	Extra string `gorm:"size:10"`
}

func (wider) TableName() string { return "posts" }

func openGorm(t *testing.T, name string, prepare bool) *gorm.DB {
	t.Helper()
	root := open(t, "")
	for _, text := range []string{"DROP DATABASE IF EXISTS " + name, "CREATE DATABASE " + name} {
		if _, err := root.Exec(text); err != nil {
			t.Fatal(err)
		}
	}
	host, port := os.Getenv("CLIENTS_MYSQL_HOST"), os.Getenv("CLIENTS_MYSQL_PORT")
	source := fmt.Sprintf("root@tcp(%s:%s)/%s?charset=utf8mb4&parseTime=True&loc=Local", host, port, name)
	db, err := gorm.Open(mysql.Open(source), &gorm.Config{PrepareStmt: prepare})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if pool, err := db.DB(); err == nil {
			pool.Close()
		}
	})
	return db
}

func TestGorm(t *testing.T) {
	for _, prepare := range []bool{false, true} {
		t.Run(fmt.Sprintf("prepare=%v", prepare), func(t *testing.T) {
			steps(t, openGorm(t, "steps_gorm", prepare))
		})
	}
}

func steps(t *testing.T, db *gorm.DB) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(db.AutoMigrate(&User{}, &Post{}, &Lang{}))
	must(db.AutoMigrate(&User{}, &Post{}, &Lang{}))
	age := 5
	posts, langs := []Post{{Title: "x"}, {Title: "y"}}, []Lang{{Code: "de"}}
	must(db.Create(&User{Name: "a", Age: &age, Money: 1.5, Born: time.Now(), Posts: posts, Langs: langs}).Error)
	more := []User{{Name: "b", Born: time.Now()}, {Name: "c", Born: time.Now()}}
	must(db.Create(&more).Error)
	if more[0].ID != 2 || more[1].ID != 3 {
		t.Fatal("ids", more[0].ID, more[1].ID)
	}
	var found User
	must(db.Preload("Posts").Preload("Langs").First(&found, "name = ?", "a").Error)
	if len(found.Posts) != 2 || len(found.Langs) != 1 || *found.Age != 5 || found.Money != 1.5 {
		t.Fatal("loaded", found)
	}
	must(db.Model(&found).Updates(map[string]any{"Age": gorm.Expr("age + ?", 1), "money": 2.25}).Error)
	upsert := clause.OnConflict{Columns: []clause.Column{{Name: "name"}}, DoUpdates: clause.AssignmentColumns([]string{"money"})}
	must(db.Clauses(upsert).Create(&User{Name: "a", Money: 9, Born: time.Now()}).Error)
	must(db.Transaction(func(tx *gorm.DB) error {
		var locked User
		must(tx.Clauses(clause.Locking{Strength: "UPDATE"}).First(&locked, found.ID).Error)
		if locked.Money != 9 || *locked.Age != 6 {
			t.Fatal("changed", locked)
		}
		return tx.Transaction(func(inner *gorm.DB) error { return inner.Delete(&User{}, more[0].ID).Error })
	}))
	var count int64
	must(db.Model(&User{}).Where("name IN ?", []string{"a", "b", "c"}).Count(&count).Error)
	if count != 2 {
		t.Fatal("soft deletion left", count)
	}
	if !db.Migrator().HasIndex(&Post{}, "idx_posts_title") || !db.Migrator().HasConstraint(&User{}, "Posts") {
		t.Fatal("the index or the constraint is not found")
	}
	must(db.Migrator().AddColumn(&wider{}, "Extra"))
	must(db.Migrator().RenameColumn(&wider{}, "extra", "more"))
	must(db.Migrator().DropColumn(&wider{}, "more"))
}
